import { expect, test } from 'vitest'
import { readSettings } from './settings.ts'

test('in a cluster, the webhooks need nothing', () => {
  expect(readSettings({}, [])).toEqual({
    namespace: 'virtset-system',
    port: 8443,
    logLevel: 'info',
    source: {
      kind: 'cluster',
      subresourcesPort: 8444,
      sessionsPort: 8445,
      healthPort: 8080,
      pod: { name: 'virtset-webhooks', uid: '' },
      services: ['virtset-webhooks', 'virtset-subresources', 'virtset-sessions'],
      secretName: 'virtset-webhooks-certificates',
      propagationMs: 10_000,
    },
  })
})

test('everything can be set', () => {
  const env = {
    NAMESPACE: 'system',
    PORT: '1',
    SUBRESOURCES_PORT: '4',
    SESSIONS_PORT: '5',
    HEALTH_PORT: '2',
    METRICS_PORT: '3',
    LOG_LEVEL: 'debug',
    POD_NAME: 'webhooks-a',
    POD_UID: 'u-1',
    SERVICE: 'hooks',
    SUBRESOURCES_SERVICE: 'subresources',
    SESSIONS_SERVICE: 'sessions',
    SECRET: 'secret',
    CERTIFICATE_DIRECTORY: '/certificates',
    HANDLER_TOKEN: '/token',
    PROPAGATION_SECONDS: '1.5',
  }
  expect(readSettings(env, [])).toEqual({
    namespace: 'system',
    port: 1,
    logLevel: 'debug',
    source: {
      kind: 'cluster',
      subresourcesPort: 4,
      sessionsPort: 5,
      healthPort: 2,
      metricsPort: '3',
      pod: { name: 'webhooks-a', uid: 'u-1' },
      services: ['hooks', 'subresources', 'sessions'],
      secretName: 'secret',
      certificateDirectory: '/certificates',
      handlerToken: '/token',
      propagationMs: 1500,
    },
  })
})

test('a folder of presets needs a certificate', () => {
  const args = ['--presets', 'folder', '--port', '7']
  expect(readSettings({ PORT: '1' }, [...args, '--cert', 'a', '--key', 'b'])).toEqual({
    namespace: 'virtset-system',
    port: 7,
    logLevel: 'info',
    source: { kind: 'folder', healthPort: 0, folder: 'folder', certificate: { cert: 'a', key: 'b' } },
  })
  expect(() => readSettings({}, [...args, '--cert', 'a'])).toThrow('--presets requires --cert and --key')
  expect(() => readSettings({}, ['--colour'])).toThrow('--colour')
})
