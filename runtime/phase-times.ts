import type { MachineStatus, Phase } from '../api/machine.ts'

type PhaseTimes = NonNullable<MachineStatus['phaseTransitionTimestamps']>

/** A life has four or five; a node that comes and goes adds two each time, for years. The newest are kept. */
const mostKept = 32

/** When each phase was entered, with `phase` at `time` (RFC 3339) where that is not the last one. */
export function enterPhase(before: PhaseTimes, phase: Phase, time: string): PhaseTimes {
  return before.at(-1)?.phase === phase ? before : [...before, { phase, time }].slice(-mostKept)
}
