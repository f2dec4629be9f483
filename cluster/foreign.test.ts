import { expect, test } from 'vitest'

import { destinationOf } from './foreign.ts'
import { readSettings } from './settings.ts'

const destination = (environment: Record<string, string>) =>
  destinationOf(readSettings('/checkout', { HOME: '/h', ...environment }))

test('where to install is said by the user', () => {
  expect(destination({ KUBECONFIG: '/my/config', IMAGE_PREFIX: 'registry.example.org/virtset/' })).toEqual({
    kubeconfig: '/my/config',
    imagePrefix: 'registry.example.org/virtset',
  })
})

test('everything that is missing is said at once', () => {
  expect(() => destination({})).toThrow(/KUBECONFIG is not set.*\n.*IMAGE_PREFIX is not set/)
  expect(() => destination({ KUBECONFIG: '/my/config' })).toThrow(/^[^\n]*\n[^\n]*IMAGE_PREFIX[^\n]*$/)
})
