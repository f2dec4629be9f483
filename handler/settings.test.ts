import { expect, test } from 'vitest'
import { readSettings } from './settings.ts'

test('a handler needs only the name of its node', () => {
  expect(readSettings({ NODE_NAME: 'node1' })).toEqual({
    nodeName: 'node1',
    kubeletRoot: '/var/lib/kubelet',
    profileFile: '/var/run/virtset/profile/profile.json',
    healthPort: 8080,
    logLevel: 'info',
  })
  expect(() => readSettings({ NODE_NAME: '' })).toThrow('NODE_NAME')
})

test('everything else can be set', () => {
  const env = {
    NODE_NAME: 'node1',
    KUBELET_ROOT: '/k',
    PROFILE: '/p',
    HEALTH_PORT: '1',
    METRICS_PORT: '2',
    LOG_LEVEL: 'debug',
  }
  expect(readSettings(env)).toEqual({
    nodeName: 'node1',
    kubeletRoot: '/k',
    profileFile: '/p',
    healthPort: 1,
    metricsPort: '2',
    logLevel: 'debug',
  })
})
