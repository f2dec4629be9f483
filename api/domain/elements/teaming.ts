import { attribute, element } from '../description.ts'
import { oneOf } from '../scalar.ts'
import { identifier } from '../text.ts'

export const teaming = element('Two interfaces that are one to the guest, so that one can be taken away to migrate.', {
  type: attribute(oneOf('persistent', 'transient'), 'Whether this is the one that stays.'),
  persistent: attribute(identifier, 'The alias of the one that stays, for the other.'),
})
