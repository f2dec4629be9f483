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

/** Kills the only process of a VM's pod whose command line matches. */
export function kill(vm: VirtualMachine, isWanted: (command: string) => boolean): void {
  const [pid, ...others] = processesOfPod(vm.status?.podUID ?? 'no pod', isWanted)
  if (pid === undefined || others.length > 0) throw new Error(`not one process, but ${others.length}`)
  process.kill(pid, 'SIGKILL')
}
