import { expect, test } from 'vitest'
import { ApiUnreachable } from '../runtime/api-error.ts'
import { attach, stream } from './attachment.ts'

test('a session without credentials reports why, as requests do', async () => {
  const cause = new Error('the plugin failed')
  const access = { server: 'https://127.0.0.1:1', prove: () => Promise.reject(cause) }
  const receiver = { begin: () => {}, receive: () => undefined }
  for (const open of [attach, stream]) {
    await expect(open(access, '/apis', receiver)).rejects.toSatisfy(
      (error) => error instanceof ApiUnreachable && error.cause === cause,
    )
  }
})
