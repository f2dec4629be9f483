import { expect, test } from 'vitest'
import { parse } from 'yaml'

import { possibleNodes } from './network.ts'
import { kubeletConfiguration, nodePaths } from './node.ts'

/** The defaults of a KubeletConfiguration. */
const defaults = { port: 10250, healthzPort: 10248 }

test('no two servers of the kubelets listen on the same port of an address', () => {
  const listeners = possibleNodes.flatMap((node) => {
    const configuration = kubeletConfiguration(node, nodePaths('/state', node.name), { directory: '/pki' })
    const { address, healthzBindAddress, port, healthzPort } = { ...defaults, ...parse(configuration) }
    return [`${address}:${port}`, `${healthzBindAddress}:${healthzPort}`]
  })
  expect(new Set(listeners).size).toBe(2 * possibleNodes.length)
})
