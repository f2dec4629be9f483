import { attribute, child, element } from '../description.ts'
import { yesNo } from '../scalar.ts'

const suspend = (description: string) =>
  element(description, { enabled: attribute(yesNo, 'Whether the firmware offers it.') })

export const pm = element('Sleep states that the firmware offers.', {
  suspendToMem: child(suspend('Suspend to memory (S3).'), 'Suspend to memory (S3).', { xml: 'suspend-to-mem' }),
  suspendToDisk: child(suspend('Suspend to disk (S4).'), 'Suspend to disk (S4).', { xml: 'suspend-to-disk' }),
})
