import { expect, test } from 'vitest'
import { elementOf, type Element } from './description.ts'
import { domain } from './domain.ts'
import { placeFor } from './misplaced.ts'
import { fieldAt } from '../../test/field-at.ts'

const elementAt = (path: string): Element => {
  const field = path === '' ? undefined : fieldAt(path)
  return field?.at === 'child' || field?.at === 'children' ? elementOf(field) : domain
}

test.each([
  ['a list by the name of one', 'disk', 'devices', 'did you mean "disks"?'],
  ["libvirt's own name", 'vendor_id', 'cpu.model', 'did you mean "vendorId"?'],
  ['a key that belongs one level deeper', 'cores', 'cpu', '"cores" belongs under cpu.topology'],
  ['a key that belongs two levels deeper', 'tseg', 'features', '"tseg" belongs under features.smm'],
  ['a key of a list below', 'machine', 'os', '"machine" belongs under os.type'],
  ['a key from elsewhere', 'disks', '', '"disks" belongs under devices'],
  ['a device beside its list', 'disks', 'os', '"disks" belongs under devices'],
  ['no place is suggested for a typo', 'memroy', '', undefined],
  ['a key that exists in many places', 'type', 'features.acpi', undefined],
  ['a key that does not exist', 'frobnicate', '', undefined],
  ['a key that is special in JavaScript', '__proto__', '', undefined],
  ['another one', 'constructor', 'cpu', undefined],
])('%s: %s in %j', (_, key, path, expected) => expect(placeFor(key, elementAt(path), path)).toBe(expected))
