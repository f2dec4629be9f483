import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, dirname, join, resolve, sep } from 'node:path'
import { KubeConfig, loadYaml, type User } from '@kubernetes/client-node'

/** `tokenFile` is an absolute path. The library ignores this field. */
export type KubeconfigUser = User & { readonly tokenFile?: string }

type Environment = Readonly<Record<string, string | undefined>>

/** A file, or else those in the environment. */
export interface KubeconfigPlace {
  readonly file?: string
  readonly environment?: Environment
}

export interface Kubeconfig {
  readonly config: KubeConfig
  readonly users: readonly KubeconfigUser[]
}

/**
 * Reads the file, or else those that kubectl would use ($KUBECONFIG, ~/.kube/config). As in client-go, the first of
 * several files that has an entry or the current context decides it, and a relative path is relative to the directory of
 * the file in which it is.
 */
export function readKubeconfig({ file, environment = {} }: KubeconfigPlace): Kubeconfig {
  const files = file === undefined ? defaultFiles(environment) : [file]
  const config = new KubeConfig()
  if (files.length === 0) {
    // The service account of a pod, if there is one.
    config.loadFromDefault()
    return { config, users: config.users }
  }
  const parts = files.map(readPart)
  const users = parts.flatMap((part) => part.users)
  config.loadFromOptions({
    // The library uses the first of several entries with the same name.
    clusters: parts.flatMap((part) => part.config.clusters),
    contexts: parts.flatMap((part) => part.config.contexts),
    users,
    currentContext: parts.map((part) => part.config.currentContext).find(Boolean),
  })
  return { config, users }
}

/** Of several files, those that are missing are skipped. */
function defaultFiles(environment: Environment): readonly string[] {
  const named = (environment['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '')
  const existing = named.filter((file) => existsSync(file))
  if (named.length > 0) return existing.length > 0 ? existing : named
  const usual = join(homedir(), '.kube', 'config')
  return existsSync(usual) ? [usual] : []
}

/** The parts of a kubeconfig that the library does not parse. */
interface Written {
  readonly users?: readonly { readonly name: string; readonly user?: { readonly tokenFile?: string } }[]
}

function readPart(file: string): Kubeconfig {
  try {
    return parsePart(readFileSync(file, 'utf8'), resolve(dirname(file)))
  } catch (error) {
    throw new Error(`kubeconfig ${file} cannot be read`, { cause: error })
  }
}

function parsePart(text: string, directory: string): Kubeconfig {
  const config = new KubeConfig()
  const isEmpty = text.split('\n').every((line) => /^\s*(?:#|---\s*$|null\s*$|$)/.test(line))
  if (isEmpty) return { config, users: [] }
  config.loadFromString(text)
  config.makePathsAbsolute(directory)
  const { users: written = [] } = loadYaml<Written>(text)
  const users = config.users.map((user) => {
    const tokenFile = written.find(({ name }) => name === user.name)?.user?.tokenFile
    return {
      ...user,
      ...(user.exec ? { exec: { ...user.exec, command: programIn(directory, user.exec.command) } } : {}),
      ...(tokenFile ? { tokenFile: resolve(directory, tokenFile) } : {}),
    }
  })
  return { config, users }
}

/** A command without a separator is looked up in PATH. */
const programIn = (directory: string, command: unknown): unknown =>
  typeof command === 'string' && command.includes(sep) ? resolve(directory, command) : command
