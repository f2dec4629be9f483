import { Argument } from 'commander'

export type NamedKind = 'virtualMachines' | 'virtualMachineConfigs' | 'virtualMachineSnapshots'

/** An argument that is the name of an object of the cluster, which shells complete. */
export class NameArgument extends Argument {
  readonly kinds: readonly NamedKind[]
  constructor(word: string, description: string, kinds: readonly NamedKind[]) {
    super(word, description)
    this.kinds = kinds
  }
}

/** A VM can be reached by its own name, and by that of its config. */
export const runningVm: readonly NamedKind[] = ['virtualMachines', 'virtualMachineConfigs']
