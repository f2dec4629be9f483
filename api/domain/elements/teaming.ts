import { attribute, element } from '../description.ts'
import { oneOf } from '../scalar.ts'
import { identifier } from '../text.ts'

export const teaming = element('Two interfaces that the guest bonds, so that one can be unplugged for migration.', {
  type: attribute(oneOf('persistent', 'transient'), 'Whether this interface stays during migration.'),
  persistent: attribute(identifier, 'On the transient interface: the alias of the persistent one.'),
})
