import { createHash } from 'node:crypto'
import { isDeeper, mostLevels } from '../api/schema.ts'
import { jsonMeaning } from './meaning.ts'

/**
 * Returns 16 hexadecimal digits of a hash of a value of JSON. The order of keys does not affect it. All values that nest
 * deeper than any valid one have one digest.
 */
export const digestOf = (value: unknown): string =>
  createHash('sha256')
    .update(isDeeper(value, mostLevels) ? 'too deep' : jsonMeaning(value))
    .digest('hex')
    .slice(0, 16)
