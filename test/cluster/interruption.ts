import { readFileSync } from 'node:fs'

import { processesOfPod, type VirtualMachine } from './cluster.ts'

export const isLauncher = (command: string) => command.startsWith('virt-launcher')
export const isLibvirtd = (command: string) => command.startsWith('libvirtd')
export const inPhase = (phase: string) => (vm: VirtualMachine) => vm.status?.phase === phase
export const diskOf = (volume: string, dev: string) => ({
  type: 'volume',
  device: 'disk',
  source: { volume },
  target: { dev },
})

/** The only process of a VM's pod whose command line matches. */
export function processOf(vm: VirtualMachine, isWanted: (command: string) => boolean): number {
  const all = processesOfPod(vm.status?.podUID ?? 'no pod', isWanted)
  const [pid, ...others] = all.filter((one) => !isForked(one, all))
  if (pid === undefined || others.length > 0) throw new Error(`not one process, but ${all.length}: ${all.join(' ')}`)
  return pid
}

/** Whether its parent is one of them: until it executes its own program, it has the command line of its parent. */
function isForked(pid: number, all: readonly number[]): boolean {
  try {
    return all.includes(Number(/^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]))
  } catch {
    // It has ended in the meantime.
    return true
  }
}

/** Kills the only process of a VM's pod whose command line matches. */
export const kill = (vm: VirtualMachine, isWanted: (command: string) => boolean): void =>
  void process.kill(processOf(vm, isWanted), 'SIGKILL')
