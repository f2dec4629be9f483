import { attribute, content, element, type Reach, type Scale } from './description.ts'
import { uint64, unit } from './scalar.ts'

/**
 * An element whose text is an amount of memory or storage and whose `unit` says in what: `{unit: MiB, value: 64}`.
 * `absent` is the unit of a bare number, `to` the one that libvirt writes.
 */
export const size = (description: string, units: Pick<Scale, 'absent' | 'to'>, options: { reach?: Reach } = {}) =>
  element(
    description,
    {
      unit: attribute(unit, `The unit of the value; ${units.absent} where absent.`, options),
      value: content(uint64, 'The amount.', options),
    },
    { whole: true, scale: { value: 'value', unit: 'unit', ...units } },
  )

export const kibibytes = (description: string, options: { reach?: Reach } = {}) =>
  size(description, { absent: 'KiB', to: 'KiB' }, options)
