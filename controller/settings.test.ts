import { expect, test } from 'vitest'
import { readSettings } from './settings.ts'

test('a controller needs only the launcher image', () => {
  expect(readSettings({ LAUNCHER_IMAGE: 'launcher:1' }, 7)).toEqual({
    namespace: 'virtset-system',
    identity: 'controller-7',
    launcherImage: 'launcher:1',
    healthPort: 8080,
    logLevel: 'info',
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
  }
  expect(readSettings(env, 7)).toEqual({
    namespace: 'system',
    identity: 'controller-a',
    launcherImage: 'launcher:1',
    healthPort: 1,
    metricsPort: '2',
    logLevel: 'debug',
  })
})

test('without a pod, the identity is that of the process', () => {
  expect(readSettings({ LAUNCHER_IMAGE: 'launcher:1', HOSTNAME: 'host' }, 7).identity).toBe('host-7')
})
