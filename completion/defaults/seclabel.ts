import { characterSources } from './character.ts'
import { imagesOf } from './disk.ts'
import { fill, type Addition, type Rule } from './rule.ts'

export const seclabelModel: Rule = {
  name: 'seclabel-model',
  description: 'A label without a security module is for none.',
  apply: ({ seclabels }) =>
    (seclabels ?? []).flatMap((label, index): Addition[] =>
      label.type === 'static' ? [] : [fill(`seclabels[${index}]`, label, { model: 'none' })],
    ),
}

export const seclabelRelabel: Rule = {
  name: 'seclabel-relabel',
  description:
    'Where a security module makes the label, it labels the resources of the VM as well; with a given label it does not.',
  apply: ({ seclabels }) =>
    (seclabels ?? []).flatMap((label, index): Addition[] => {
      const { type, model } = label
      if (model === undefined || model === 'none' || (type !== 'dynamic' && type !== 'static')) return []
      return [fill(`seclabels[${index}]`, label, { relabel: type === 'dynamic' })]
    }),
}

export const sourceRelabel: Rule = {
  name: 'source-relabel',
  description: 'An image or socket that is given a label is labelled with it.',
  apply: (domain) =>
    [...imagesOf(domain.devices?.disks), ...characterSources(domain)].flatMap(
      ({ at, source: { seclabel, seclabels = [] } }) => {
        if (!seclabel && seclabels.length === 0) return []
        const labels = [
          ...(seclabel ? [{ at: `${at}.seclabel`, label: seclabel }] : []),
          ...seclabels.map((label, index) => ({ at: `${at}.seclabels[${index}]`, label })),
        ]
        return labels
          .filter(({ label }) => label.label !== undefined)
          .map((one) => fill(one.at, one.label, { relabel: true } as object))
      },
    ),
}
