import { expect, test } from 'vitest'
import { readSettings } from './settings.ts'

test('a handler needs only the name of its node', () => {
  expect(readSettings({ NODE_NAME: 'node1' })).toEqual({
    nodeName: 'node1',
    kubeletRoot: '/var/lib/kubelet',
    networkDirectory: '/var/lib/kubelet/plugins/network.virtset.io/run',
    deviceCount: 1000,
    healthPort: 8080,
    logLevel: 'info',
  })
  expect(() => readSettings({ NODE_NAME: '' })).toThrow('NODE_NAME')
})

test('everything else can be set', () => {
  const env = {
    NODE_NAME: 'node1',
    KUBELET_ROOT: '/k',
    DEVICE_PLUGINS: '/d',
    NETWORK_DIRECTORY: '/n',
    DEVICE_COUNT: '8',
    HEALTH_PORT: '1',
    METRICS_PORT: '2',
    SESSION_PORT: '3',
    POD_IP: '10.0.0.1',
    LOG_LEVEL: 'debug',
  }
  expect(readSettings(env)).toEqual({
    nodeName: 'node1',
    kubeletRoot: '/k',
    devicePlugins: '/d',
    networkDirectory: '/n',
    deviceCount: 8,
    healthPort: 1,
    metricsPort: '2',
    sessions: { port: 3, address: '10.0.0.1' },
    logLevel: 'debug',
  })
})

test.each(['0', '1.5', '10001', 'many'])('a device count of %s is refused', (count) => {
  expect(() => readSettings({ NODE_NAME: 'node1', DEVICE_COUNT: count })).toThrow(
    `DEVICE_COUNT=${count}: must be a whole number from 1 to 10000`,
  )
})
