import { deviceFields } from './address.ts'
import { chardevFields, chardevType, chardevUnion } from './chardev-source.ts'
import { attribute, element, leaf, leaves } from '../description.ts'
import { oneOf, path } from '../scalar.ts'
import { line } from '../text.ts'

const host = { reach: 'host' } as const

export const smartcard = element(
  'A smart card reader.',
  {
    mode: attribute(
      oneOf('host', 'host-certificates', 'passthrough'),
      "The node's own reader, certificates of the node, or a character device.",
      { reach: 'host', reachOf: { passthrough: 'guest' } },
    ),
    type: chardevType,
    certificates: leaves('certificate', line(255), 'Names of the three certificates, with `host-certificates`.', {
      ...host,
      whole: true,
    }),
    database: leaf(path, 'The directory of their database; `/etc/pki/nssdb` if absent.', host),
    ...chardevFields,
    ...deviceFields,
  },
  { union: chardevUnion },
)
