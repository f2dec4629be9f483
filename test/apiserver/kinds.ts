import { attempt, run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import type { TestApiServer } from './apiserver.ts'

/** Installs the CRDs of the manifests and waits until they are served. */
export async function installKinds(api: TestApiServer): Promise<void> {
  const kubectl = [api.kubectl, '--kubeconfig', api.kubeconfig]
  await run([...kubectl, 'apply', '--server-side', '-k', 'manifests/crds'])
  // `kubectl wait` fails at once on a CRD without conditions, hence the retries.
  const wait = [...kubectl, 'wait', '--for=condition=Established', 'crd', '--all', '--timeout=180s']
  await until(
    async () => (await attempt(wait)) !== undefined,
    () => {},
    { deadlineMs: 120_000 },
  )
}
