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

export const isPlural = (text: string): text is Plural => Object.hasOwn(kinds, text)

export const isPresetPlural = (text: string): text is PresetPlural =>
  text === 'virtualmachinepresets' || text === 'clustervirtualmachinepresets'

export const isNamespaced = (plural: Plural): boolean => plural !== 'clustervirtualmachinepresets'
