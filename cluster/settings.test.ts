import { expect, test } from 'vitest'

import { readSettings } from './settings.ts'

const at = (environment: Record<string, string>) => readSettings('/src', { HOME: '/home/ann', ...environment })

test.each([
  ['uses XDG_CACHE_HOME for the cache', { XDG_CACHE_HOME: '/c' }, { cache: '/c/virtset', state: '/c/virtset/state' }],
  ['by default, the cache is below the home directory', {}, { cache: '/home/ann/.cache/virtset' }],
  [
    'the state can be in another directory',
    { VIRTSET_STATE: '/s' },
    { cache: '/home/ann/.cache/virtset', state: '/s' },
  ],
  ['one node by default', {}, { nodes: 1 }],
  ['two nodes if set', { NODES: '2' }, { nodes: 2 }],
  ['an empty variable counts as unset', { KUBE_BIN_DIR: '', BASE: '' }, { kubeBinDir: undefined, base: undefined }],
])('%s', (_, environment, expected) => {
  expect(at(environment)).toMatchObject(expected)
})

test.each([
  ['rejects four nodes', { NODES: '4' }, 'NODES=4: must be 1 to 3'],
  [
    'rejects a state directory whose path is too long for sockets',
    { VIRTSET_STATE: `/${'x'.repeat(80)}` },
    'set VIRTSET_STATE',
  ],
])('%s', (_, environment, message) => {
  expect(() => at(environment)).toThrow(message)
})
