import type { VirtualMachine } from '../api/virtual-machine.ts'
import { apiVersion } from '../api/object.ts'

/** The VM of a domain. Its name is the domain's, otherwise the file's, converted to a valid Kubernetes name. */
export function vmOfDomain(domain: VirtualMachine['spec']['domain'], stem: string, namespace?: string): VirtualMachine {
  const name = kubernetesName(domain.name ?? '') || kubernetesName(stem) || 'domain'
  return {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    spec: { domain },
  }
}

const kubernetesName = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .slice(0, 63)
    .replaceAll(/^-+|-+$/g, '')
