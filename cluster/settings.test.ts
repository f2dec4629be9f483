import { expect, test } from 'vitest'

import { readSettings } from './settings.ts'

const at = (environment: Record<string, string>) => readSettings('/src', { HOME: '/home/ann', ...environment })

test.each([
  [
    'the cache is where the user keeps caches',
    { XDG_CACHE_HOME: '/c' },
    { cache: '/c/virtset', state: '/c/virtset/state' },
  ],
  ['without a setting it is below the home directory', {}, { cache: '/home/ann/.cache/virtset' }],
  ['the state can be elsewhere', { VIRTSET_STATE: '/s' }, { cache: '/home/ann/.cache/virtset', state: '/s' }],
  ['one node unless asked for two', {}, { nodes: 1 }],
  ['two nodes when asked for', { NODES: '2' }, { nodes: 2 }],
  ['an empty variable is no setting', { KUBE_BIN_DIR: '', BASE: '' }, { kubeBinDir: undefined, base: undefined }],
])('%s', (_, environment, expected) => {
  expect(at(environment)).toMatchObject(expected)
})

test.each([
  ['three nodes are refused', { NODES: '3' }, 'NODES=3: one machine can carry 1 or 2 nodes'],
  ['a state directory too deep for sockets is refused', { VIRTSET_STATE: `/${'x'.repeat(80)}` }, 'set VIRTSET_STATE'],
])('%s', (_, environment, message) => {
  expect(() => at(environment)).toThrow(message)
})
