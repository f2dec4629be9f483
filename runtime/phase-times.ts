import type { VirtualMachineStatus, Phase } from '../api/virtual-machine.ts'

type PhaseTimes = NonNullable<VirtualMachineStatus['phaseTransitionTimestamps']>

/** A VM has four or five. A node that stops responding adds two each time, so only the newest are stored. */
const mostKept = 32

/** The transitions, with `phase` at `time` (RFC 3339) appended if it is not the last one. */
export function enterPhase(before: PhaseTimes, phase: Phase, time: string): PhaseTimes {
  return before.at(-1)?.phase === phase ? before : [...before, { phase, time }].slice(-mostKept)
}
