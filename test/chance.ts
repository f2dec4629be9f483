import { rules } from '../completion/rules/rules.ts'

/** Random numbers from 0 to 1 for a seed: mulberry32 by Tommy Ettinger, in the public domain. */
export const chance = (seed: number): Chance => {
  let state = seed >>> 0
  const random = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
  return { random, pick: (from) => from[Math.floor(random() * from.length)] }
}

export interface Chance {
  readonly random: () => number
  readonly pick: <T>(from: readonly T[]) => T | undefined
}

/** Specs of VMs with varied fields: the examples of all rules, both refused and accepted. */
export const exampleSpecs: readonly { readonly [key: string]: unknown }[] = rules.flatMap(
  ({ example: { breaks, holds } }) =>
    [breaks, holds].map((spec) => ({
      ...spec,
      domain: { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } }, ...spec.domain },
    })),
)
