import { join, resolve } from 'node:path'
import { run } from '../cluster/command.ts'
import { readSettings } from '../cluster/settings.ts'

/** kubectl in a namespace of the cluster of `make up`, or of the one that KUBECONFIG names. */
export function madeCluster(namespace: string) {
  const {
    KUBECONFIG: kubeconfig = join(readSettings(resolve(import.meta.dirname, '..'), process.env).state, 'kubeconfig'),
    KUBE_BIN_DIR: binaries,
  } = process.env
  const program = binaries === undefined ? 'kubectl' : join(binaries, 'kubectl')
  const base = [program, '--kubeconfig', kubeconfig, '-n', namespace]
  const kubectl = (...rest: string[]): Promise<string> => run([...base, ...rest])
  return {
    /** The command, without its arguments. */
    base,
    kubectl,
    /** What a JSON path selects. */
    field: async (path: string, ...what: string[]): Promise<string> =>
      (await kubectl('get', ...what, '-o', `jsonpath=${path}`)).trim(),
  }
}
