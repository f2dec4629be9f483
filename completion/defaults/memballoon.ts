import { rule } from './rule.ts'

export const memballoon = rule('memballoon', 'Every PC has a virtio memory balloon.', () => ({
  devices: { memballoon: { model: 'virtio' } },
}))
