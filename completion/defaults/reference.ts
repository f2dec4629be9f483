import { rules } from './defaults.ts'

/** The reference page of the rules, in the order in which they are applied. */
export const defaultsReference = (): string =>
  [
    '# Defaults',
    '',
    'After the presets, completion adds to a VM what libvirt itself would fill in when it defines the domain. Existing values never',
    'change. Only `private-screen` and `hot-plug-port` are defaults of virtset. `kubectl vm explain` shows these values as `default: libvirt`, and the provenance of the VM records the name of the rule. The rules are',
    'applied in this order; each reads what earlier rules filled in.',
    '',
    'This page is generated from the rules: `npm run reference`.',
    '',
    '| rule | what it adds |',
    '|---|---|',
    ...rules.map(({ name, description }) => `| \`${name}\` | ${description} |`),
    '',
  ].join('\n')
