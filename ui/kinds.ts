/** The lists of the page. */
export const kinds = {
  virtualmachines: 'Virtual machines',
  virtualmachineconfigs: 'Configs',
  virtualmachinegroups: 'Groups',
} as const

export type Plural = keyof typeof kinds

export const isPlural = (text: string): text is Plural => Object.hasOwn(kinds, text)
