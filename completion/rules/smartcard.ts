import { numberOf } from '../defaults/reading.ts'
import { list } from './device.ts'
import { invalid, required, tooMany } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const smartcards: Rule = {
  id: 'smartcards',
  description: 'A VM has one smart card reader, which says where the card is.',
  about: ['smartcards'],
  *check({ domain }) {
    const cards = list(domain, 'smartcards')
    if (cards.length > 1)
      yield tooMany('spec.domain.devices.smartcards', cards.length, 'QEMU has one smart card reader')
    for (const [index, { mode, type, certificates = [], address }] of cards.entries()) {
      const at = `spec.domain.devices.smartcards[${index}]`
      if (mode === undefined) yield required(`${at}.mode`, 'must be given')
      if (mode === 'passthrough' && type === undefined)
        yield required(`${at}.type`, 'must be given for mode passthrough: what leads to the card', 'spicevmc')
      if (address?.type !== undefined && address.type !== 'ccid')
        yield invalid(`${at}.address.type`, address.type, 'must be ccid')
      if ((numberOf(address?.controller) ?? 0) > 0 || (numberOf(address?.slot) ?? 0) > 0)
        yield invalid(`${at}.address.controller`, address?.controller, 'and slot must be 0: QEMU has one reader')
      if (mode === 'host-certificates' && certificates.length !== 3) {
        yield invalid(`${at}.certificates`, certificates.length, 'must be three for mode host-certificates')
      }
    }
  },
  example: example(
    { devices: { smartcards: [{ mode: 'host' }, { mode: 'host' }] } },
    { devices: { smartcards: [{ mode: 'host' }] } },
  ),
}
