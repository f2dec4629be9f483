import { rules } from './defaults.ts'

/** The reference page of the rules, in the order in which they are applied. */
export const defaultsReference = (): string =>
  [
    '# Defaults',
    '',
    'What completion adds to a VM after the presets: what libvirt itself would fill in when it defines the domain. Nothing that is written is ever',
    'changed. The name of the rule is what `kubectl vm explain` shows as `default: libvirt`, and what the provenance of the VM records. The rules are',
    'applied in this order; each reads what those before it have left.',
    '',
    'This page is generated from the rules: `npm run reference`.',
    '',
    '| rule | what it adds |',
    '|---|---|',
    ...rules.map(({ name, description }) => `| \`${name}\` | ${description} |`),
    '',
  ].join('\n')
