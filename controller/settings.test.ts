import { expect, test } from 'vitest'
import { readSettings } from './settings.ts'

test('a controller needs only the launcher image', () => {
  expect(readSettings({ LAUNCHER_IMAGE: 'launcher:1' }, 7)).toEqual({
    namespace: 'virtset-system',
    identity: 'controller-7',
    launcherImage: 'launcher:1',
    healthPort: 8080,
    logLevel: 'info',
    concurrency: 10,
    connections: 8,
    sharesCapabilities: false,
  })
  expect(() => readSettings({ LAUNCHER_IMAGE: '' }, 7)).toThrow('LAUNCHER_IMAGE')
})

test('everything else can be set', () => {
  const env = {
    LAUNCHER_IMAGE: 'launcher:1',
    NAMESPACE: 'system',
    POD_NAME: 'controller-a',
    HOSTNAME: 'host',
    HEALTH_PORT: '1',
    METRICS_PORT: '2',
    LOG_LEVEL: 'debug',
    CONCURRENCY: '40',
    CONNECTIONS: '32',
    SHARE_CAPABILITIES: 'true',
  }
  expect(readSettings(env, 7)).toEqual({
    namespace: 'system',
    identity: 'controller-a',
    launcherImage: 'launcher:1',
    healthPort: 1,
    metricsPort: '2',
    logLevel: 'debug',
    concurrency: 40,
    connections: 32,
    sharesCapabilities: true,
  })
})

test('without a pod, the identity is that of the process', () => {
  expect(readSettings({ LAUNCHER_IMAGE: 'launcher:1', HOSTNAME: 'host' }, 7).identity).toBe('host-7')
})

test.each(['0', '-1', '1.5', '10000', 'many', ''])('a number of connections is not %j', (text) => {
  const read = () => readSettings({ LAUNCHER_IMAGE: 'launcher:1', CONNECTIONS: text }, 7)
  expect(read).toThrow(`CONNECTIONS is "${text}", but must be an integer from 1 to 9999`)
})

test.each(['1', 'yes', 'TRUE', ''])('a switch is not %j', (text) => {
  const read = () => readSettings({ LAUNCHER_IMAGE: 'launcher:1', SHARE_CAPABILITIES: text }, 7)
  expect(read).toThrow(`SHARE_CAPABILITIES is "${text}", but must be true or false`)
})
