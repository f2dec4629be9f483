import { list } from '../device.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

const everywhere = ['0.0.0.0', '::', '[::]']

export const openScreen: Warning = {
  id: 'graphics-open',
  description:
    'Everyone who can reach the pod can use a display server that listens on all addresses without a password.',
  about: ['graphics'],
  *check({ domain }) {
    for (const [index, { listens = [], listen, passwd }] of list(domain, 'graphics').entries()) {
      if (passwd !== undefined || !everywhere.includes(listens[0]?.address ?? listen ?? '')) continue
      yield `devices.graphics[${index}]: listens on all addresses of the pod without a password`
    }
  },
  example: example(
    { devices: { graphics: [{ type: 'vnc', listen: '0.0.0.0' }] } },
    { devices: { graphics: [{ type: 'vnc', listen: '127.0.0.1' }] } },
  ),
}
