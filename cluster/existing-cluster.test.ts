import { expect, test } from 'vitest'

import { destinationOf } from './existing-cluster.ts'
import { readSettings } from './settings.ts'

const destination = (environment: Record<string, string>) =>
  destinationOf(readSettings('/checkout', { HOME: '/h', ...environment }))

test('reads kubeconfig and image prefix from the settings', () => {
  expect(destination({ KUBECONFIG: '/my/config', IMAGE_PREFIX: 'registry.example.org/virtset/' })).toEqual({
    kubeconfig: '/my/config',
    imagePrefix: 'registry.example.org/virtset',
  })
})

test('names every missing variable', () => {
  expect(() => destination({})).toThrow(/KUBECONFIG is not set.*\n.*IMAGE_PREFIX is not set/)
  expect(() => destination({ KUBECONFIG: '/my/config' })).toThrow(/^[^\n]*\n[^\n]*IMAGE_PREFIX[^\n]*$/)
})
