import { characterSources } from './character.ts'
import { imagesOf } from './disk.ts'
import { fill, type Addition, type Rule } from './rule.ts'

export const seclabelModel: Rule = {
  name: 'seclabel-model',
  description: 'A label without a security module is for none.',
  apply: ({ seclabels }) =>
    (seclabels ?? []).flatMap((label): Addition[] => (label.type === 'static' ? [] : [fill(label, { model: 'none' })])),
}

export const seclabelRelabel: Rule = {
  name: 'seclabel-relabel',
  description:
    'Where a security module makes the label, it labels the resources of the VM as well; with a given label it does not.',
  apply: ({ seclabels }) =>
    (seclabels ?? []).flatMap((label): Addition[] => {
      const { type, model } = label
      if (model === undefined || model === 'none' || (type !== 'dynamic' && type !== 'static')) return []
      return [fill(label, { relabel: type === 'dynamic' })]
    }),
}

export const sourceRelabel: Rule = {
  name: 'source-relabel',
  description: 'An image or socket that is given a label is labelled with it.',
  apply: (domain) =>
    [...imagesOf(domain.devices?.disks), ...characterSources(domain)].flatMap(({ seclabel, seclabels = [] }) =>
      [...(seclabel ? [seclabel] : []), ...seclabels]
        .filter(({ label }) => label !== undefined)
        .map((label) => fill(label, { relabel: true } as object)),
    ),
}
