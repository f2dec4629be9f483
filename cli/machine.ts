import type { VirtualMachine } from '../api/machine.ts'
import { apiVersion } from '../api/object.ts'

/** A VM of a domain, called by the domain's name in the form that Kubernetes wants, or by the file's. */
export function machineOfDomain(
  domain: VirtualMachine['spec']['domain'],
  stem: string,
  namespace?: string,
): VirtualMachine {
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
