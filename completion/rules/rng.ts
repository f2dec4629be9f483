import { eachDevice } from './device.ts'
import { required } from './finding.ts'
import { example } from './rule.ts'

export const rng = eachDevice('rngs')(
  'rng-backend',
  'A random number generator must have a model and a backend.',
  ({ backend, model }, at) => [
    ...(backend?.model === undefined ? [required(`${at}.backend.model`, 'must be set', 'e.g. builtin')] : []),
    ...(model === undefined ? [required(`${at}.model`, 'must be set', 'e.g. virtio')] : []),
  ],
  example(
    { devices: { rngs: [{ model: 'virtio' }] } },
    { devices: { rngs: [{ model: 'virtio', backend: { model: 'builtin' } }] } },
  ),
)
