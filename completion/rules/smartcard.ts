import { numberOf } from '../defaults/reading.ts'
import { list } from './device.ts'
import { invalid, required, tooMany } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const smartcards: Rule = {
  id: 'smartcards',
  description: 'A VM can have at most one smart card reader, with a mode and the fields that the mode requires.',
  about: ['smartcards'],
  *check({ domain }) {
    const cards = list(domain, 'smartcards')
    if (cards.length > 1)
      yield tooMany('spec.domain.devices.smartcards', cards.length, 'at most one smart card reader is supported')
    for (const [index, { mode, type, certificates = [], address }] of cards.entries()) {
      const at = `spec.domain.devices.smartcards[${index}]`
      if (mode === undefined) yield required(`${at}.mode`, 'must be set')
      if (mode === 'passthrough' && type === undefined)
        yield required(`${at}.type`, 'must be set for mode passthrough: how the card is connected', 'e.g. spicevmc')
      if (address?.type !== 'ccid') yield invalid(`${at}.address.type`, address?.type, 'must be ccid')
      for (const key of cards.length === 1 ? (['controller', 'slot'] as const) : []) {
        if ((numberOf(address?.[key]) ?? 0) > 0)
          yield invalid(`${at}.address.${key}`, address?.[key], 'must be 0: only one reader is supported')
      }
      if (mode === 'host-certificates' && certificates.length !== 3) {
        yield invalid(`${at}.certificates`, certificates.length, 'must have three items for mode host-certificates')
      }
    }
  },
  example: example(
    { devices: { smartcards: [{ mode: 'host' }, { mode: 'host' }] } },
    { devices: { smartcards: [{ mode: 'host' }] } },
  ),
}
