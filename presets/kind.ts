import type { ObjectMeta } from '../api/object.ts'
import type { Labels } from './selector.ts'
import type { ObjectStructure } from './structure.ts'
import { virtualMachineStructure } from './structure.ts'

/** An object of any kind. The structure of its kind describes the rest. */
export interface Subject {
  readonly metadata: ObjectMeta
}

/** What merging needs to know about a kind of objects. */
export interface Kind {
  readonly structure: ObjectStructure
  /** What messages call an object of this kind: `VM`, `Pod`. */
  readonly noun: string
  /** The keys before each path in `remove`. */
  readonly removesBelow: readonly string[]
  /** Whether disks and the volumes that they name are injected and removed together. */
  readonly pairsVolumes: boolean
  /** Whether presets leave the labels of an object that has a controller. */
  readonly keepsOwnedLabels?: true
  /** The labels of this object that they leave. */
  readonly kept?: Labels
  /** An object whose values fill in what is set neither by the user nor by a preset. */
  readonly below?: Subject
}

/** @param structure tests pass a smaller one */
export const virtualMachineKind = (structure = virtualMachineStructure()): Kind => ({
  structure,
  noun: 'VM',
  removesBelow: ['spec'],
  pairsVolumes: true,
})
