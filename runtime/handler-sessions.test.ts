import { expect, test } from 'vitest'
import { endpointPath, parseEndpointPath } from './handler-sessions.ts'

const podUID = '0b9dd0ab-6a4a-4bbb-9f6f-0d2f7a1a6c11'

test('a path is written and parsed', () => {
  const target = { kind: 'console', tailBytes: 5, isFollowing: true } as const
  expect(endpointPath(podUID, target)).toBe(`/pods/${podUID}/console?tail=5`)
  expect(parseEndpointPath(`/pods/${podUID}/console?tail=5`)).toEqual({ podUID, target })
})

test.each(['/', '/console', `/pods/${podUID}`, `/pods/${podUID}/`, `/pods/../console`, `/pods/${podUID}/../x/console`])(
  '%s is malformed',
  (path) => {
    expect(parseEndpointPath(path)).toBeUndefined()
  },
)
