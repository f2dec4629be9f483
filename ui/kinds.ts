/** The lists of the page. */
export const kinds = {
  virtualmachines: 'Virtual machines',
  virtualmachineconfigs: 'Configs',
  virtualmachinegroups: 'Groups',
  virtualmachinepresets: 'Presets',
  clustervirtualmachinepresets: 'Cluster presets',
} as const

export type Plural = keyof typeof kinds
export type PresetPlural = 'virtualmachinepresets' | 'clustervirtualmachinepresets'
/** The kinds that are, or make, VMs. */
export type VmPlural = Exclude<Plural, PresetPlural>

/** The kinds in manifests. */
export const kindNames: { readonly [P in Plural]: string } = {
  virtualmachines: 'VirtualMachine',
  virtualmachineconfigs: 'VirtualMachineConfig',
  virtualmachinegroups: 'VirtualMachineGroup',
  virtualmachinepresets: 'VirtualMachinePreset',
  clustervirtualmachinepresets: 'ClusterVirtualMachinePreset',
}

/** The titles of new objects. */
export const newTitles: { readonly [P in Plural]: string } = {
  virtualmachines: 'New VM',
  virtualmachineconfigs: 'New config',
  virtualmachinegroups: 'New group',
  virtualmachinepresets: 'New preset',
  clustervirtualmachinepresets: 'New preset',
}

export const isPlural = (text: string): text is Plural => Object.hasOwn(kinds, text)

export const isPresetPlural = (text: string): text is PresetPlural =>
  text === 'virtualmachinepresets' || text === 'clustervirtualmachinepresets'

export const isNamespaced = (plural: Plural): boolean => plural !== 'clustervirtualmachinepresets'

/** The collection of a kind; undefined for a kind that the page does not know. */
export const pluralOf = (kind: string): Plural | undefined =>
  Object.keys(kindNames)
    .filter(isPlural)
    .find((plural) => kindNames[plural] === kind)
