import { spawn } from 'node:child_process'
import type { TestApiServer } from './apiserver.ts'

export interface Output {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** Runs kubectl with `input`; returns its output, regardless of its exit code. */
export const runKubectl = (
  { kubectl, kubeconfig }: Pick<TestApiServer, 'kubectl' | 'kubeconfig'>,
  input: string,
  ...rest: readonly string[]
): Promise<Output> =>
  new Promise((resolve) => {
    const child = spawn(kubectl, ['--kubeconfig', kubeconfig, ...rest])
    const output = { out: '', err: '' }
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output.out += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output.err += text))
    child.stdin.end(input)
    child.on('close', (code) => resolve({ code, ...output }))
  })
