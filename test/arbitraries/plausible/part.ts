import fc from 'fast-check'
import { fieldAt } from '../../field-at.ts'
import { scalars } from '../domain.ts'

export type Json = { readonly [key: string]: unknown }
export type Parts = { readonly [key: string]: fc.Arbitrary<unknown> }

/** An object that has all of `always` and any of the others. */
export const part = (always: Parts, ...sometimes: Parts[]): fc.Arbitrary<Json> =>
  fc.record(Object.assign({}, always, ...sometimes), { requiredKeys: Object.keys(always) })

/** An object that has each of the others one time in six. */
export const rarely = (always: Parts, seldom: Parts): fc.Arbitrary<Json> =>
  fc
    .record({
      ...always,
      ...Object.fromEntries(
        Object.entries(seldom).map(([key, value]) => [
          key,
          fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value }),
        ]),
      ),
    })
    .map((made) => Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined)))

export const weighted = (...choices: [number, fc.Arbitrary<unknown>][]): fc.Arbitrary<unknown> =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })))

/** Any value of the field at this path. */
export const any = (path: string): fc.Arbitrary<unknown> => {
  const field = fieldAt(path)
  if (field === undefined || !('scalar' in field)) throw new Error(`the description has no value at ${path}`)
  return scalars(field.scalar)
}

/** Mostly one of these words, sometimes any word that is valid at this path. */
export const mostly = (path: string, ...words: readonly string[]): fc.Arbitrary<unknown> =>
  weighted([15, fc.constantFrom(...words)], [1, any(path)])

export const small = (max: number): fc.Arbitrary<number> => fc.integer({ min: 0, max })

/** One to `maxLength` devices of a kind; a generated function gets the device's index. */
export const many = (device: fc.Arbitrary<unknown>, maxLength = 3): fc.Arbitrary<unknown> =>
  fc
    .array(device, { minLength: 1, maxLength })
    .map((made) => made.map((one, index) => (typeof one === 'function' ? one(index) : one)))

/** The models of a kind of device. */
export const model = (kind: string, ...words: readonly string[]): Parts => ({
  model: mostly(`devices.${kind}.model`, ...words),
})
