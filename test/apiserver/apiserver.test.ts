import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'

import { run } from '../../cluster/command.ts'
import { startApiServer } from './apiserver.ts'

test('starts an API server that responds to an admin and stores objects, and leaves nothing when stopped', async () => {
  const api = await startApiServer()
  try {
    const kubectl = (...rest: string[]) => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest])
    expect(await kubectl('version', '-o', 'json')).toContain('"gitVersion": "v1.36.3"')
    await kubectl('create', 'configmap', 'hello', '--from-literal=a=b')
    expect(await kubectl('get', 'configmap', 'hello', '-o', 'jsonpath={.data.a}')).toBe('b')
  } finally {
    await api.stop()
  }
  expect(existsSync(api.directory)).toBe(false)
})
