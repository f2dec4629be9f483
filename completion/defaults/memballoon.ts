import { rule } from './rule.ts'

export const memballoon = rule(
  'memballoon',
  'Every PC has a virtio memory balloon; a memballoon in the spec must set its model.',
  ({ devices }) => (devices?.memballoon === undefined ? { devices: { memballoon: { model: 'virtio' } } } : {}),
)
