import { rule } from './rule.ts'

export const memballoon = rule(
  'memballoon',
  'Every PC has a virtio memory balloon; one that is written says its model itself.',
  ({ devices }) => (devices?.memballoon === undefined ? { devices: { memballoon: { model: 'virtio' } } } : {}),
)
