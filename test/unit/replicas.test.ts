import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'

interface Deployment {
  readonly kind: string
  readonly spec: {
    readonly replicas: number
    readonly template: {
      readonly metadata: { readonly labels: object }
      readonly spec: { readonly affinity: { readonly podAntiAffinity: object } }
    }
  }
}

test.each(['webhooks', 'controller'])(
  'the replicas of the %s avoid the nodes of each other, but not of those that they replace',
  (component) => {
    const documents = parseAllDocuments(readFileSync(`manifests/${component}/deployment.yaml`, 'utf8'))
    const all = documents.map((document): Deployment => document.toJS())
    const { spec } = all.find(({ kind }) => kind === 'Deployment')!
    expect(spec.replicas).toBeGreaterThan(1)
    expect(spec.template.spec.affinity.podAntiAffinity).toEqual({
      preferredDuringSchedulingIgnoredDuringExecution: [
        {
          weight: 100,
          podAffinityTerm: {
            topologyKey: 'kubernetes.io/hostname',
            labelSelector: { matchLabels: spec.template.metadata.labels },
            matchLabelKeys: ['pod-template-hash'],
          },
        },
      ],
    })
  },
)
