import { characterSources } from './character.ts'
import { imagesOf } from './disk.ts'
import { fill, type Addition, type Rule } from './rule.ts'

export const seclabelModel: Rule = {
  name: 'seclabel-model',
  description: 'The security module of a label that is not static is `none`.',
  apply: ({ seclabels }) =>
    (seclabels ?? []).flatMap((label): Addition[] => (label.type === 'static' ? [] : [fill(label, { model: 'none' })])),
}

export const seclabelRelabel: Rule = {
  name: 'seclabel-relabel',
  description:
    'With a dynamic label, the security module relabels the resources of the VM; with a static label it does not.',
  apply: ({ seclabels }) =>
    (seclabels ?? []).flatMap((label): Addition[] => {
      const { type, model } = label
      if (model === undefined || model === 'none' || (type !== 'dynamic' && type !== 'static')) return []
      return [fill(label, { relabel: type === 'dynamic' })]
    }),
}

export const sourceRelabel: Rule = {
  name: 'source-relabel',
  description: 'An image or socket with a label of its own is relabelled.',
  apply: (domain) =>
    [...imagesOf(domain.devices?.disks), ...characterSources(domain)].flatMap(({ seclabel, seclabels = [] }) =>
      [...(seclabel ? [seclabel] : []), ...seclabels]
        .filter(({ label }) => label !== undefined)
        .map((label) => fill(label, { relabel: true } as object)),
    ),
}
