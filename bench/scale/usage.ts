import { readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'

/** What a process has used: CPU time since its start, and its resident memory. */
interface Usage {
  readonly cpuMs: number
  readonly residentMiB: number
}

/** Linux counts CPU time in hundredths of a second. */
const msPerTick = 10

/** The usage of all descendants of this process; those of the same program are added. */
export function usageByProgram(): ReadonlyMap<string, Usage> {
  const usage = new Map<string, Usage>()
  for (const pid of descendants(process.pid)) {
    const found = usageOf(pid)
    if (found === undefined) continue
    const { cpuMs, residentMiB } = usage.get(found.program) ?? { cpuMs: 0, residentMiB: 0 }
    usage.set(found.program, { cpuMs: cpuMs + found.cpuMs, residentMiB: residentMiB + found.residentMiB })
  }
  return usage
}

/** The CPU time of each program since `before`, divided by `count`, in ms, and the sum. */
export function cpuPer(
  count: number,
  before: ReadonlyMap<string, Usage>,
): { readonly all: number; readonly [program: string]: number } {
  const spent = [...usageByProgram()].map(([program, { cpuMs }]): [string, number] => [
    program,
    (cpuMs - (before.get(program)?.cpuMs ?? 0)) / count,
  ])
  const all = spent.reduce((sum, [, cpuMs]) => sum + cpuMs, 0)
  const rounded = (ms: number) => Number(ms.toFixed(1))
  return { ...Object.fromEntries(spent.map(([program, ms]) => [program, rounded(ms)])), all: rounded(all) }
}

function descendants(pid: number): number[] {
  const children = (read(`/proc/${pid}/task/${pid}/children`) ?? '').split(' ').filter(Boolean).map(Number)
  return children.flatMap((child) => [child, ...descendants(child)])
}

function usageOf(pid: number): (Usage & { readonly program: string }) | undefined {
  const [stat, status, command] = ['stat', 'status', 'cmdline'].map((file) => read(`/proc/${pid}/${file}`))
  if (stat === undefined || status === undefined || command === undefined) return undefined
  // The name in parentheses can contain spaces. User and system time are fields 14 and 15.
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  const resident = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? '0'
  return {
    program: programOf(command.split('\0')),
    cpuMs: ((user ?? 0) + (system ?? 0)) * msPerTick,
    residentMiB: Number(resident) / 1024,
  }
}

/** `controller` for `node controller/main.ts`, `handlers` for `node bench/scale/handlers.ts`, `etcd` for `etcd`. */
function programOf([program = '', ...rest]: readonly string[]): string {
  const script = rest.find((argument) => argument.endsWith('.ts'))
  if (script === undefined) return basename(program)
  return basename(script) === 'main.ts' ? basename(dirname(script)) : basename(script, '.ts')
}

/** Undefined for a process that has ended. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
