import { podPlugins, redirectPlugin, routedPlugin } from '../../api/tap.ts'
import { list } from './device.ts'
import { duplicate, forbidden, invalid, required } from './finding.ts'
import type { Rule } from './rule.ts'

const ethernet = (dev: string) => ({ type: 'ethernet', target: { dev, managed: false } }) as const
const routed = (dev: string) => ({ dev, plugin: routedPlugin })

export const tapInterface: Rule = {
  id: 'tap-interface',
  description:
    'An interface whose `target.dev` is one of the `taps` of the VM must have the type `ethernet` and `managed: false`.',
  *check({ spec: { taps = [] }, domain }) {
    if (taps.length === 0) return
    const devices = new Set(taps.map(({ dev }) => dev))
    for (const [index, { type = 'user', target }] of list(domain, 'interfaces').entries()) {
      if (target?.dev === undefined || !devices.has(target.dev)) continue
      const at = `spec.domain.devices.interfaces[${index}]`
      const message = `must be ethernet: ${target.dev} is one of spec.taps`
      if (type !== 'ethernet') yield invalid(`${at}.type`, type, message)
      else if (target.managed !== false) {
        const created = `must be false: a plugin creates ${target.dev}, as spec.taps states`
        yield invalid(`${at}.target.managed`, target.managed, created)
      }
    }
  },
  example: {
    breaks: {
      domain: { devices: { interfaces: [{ type: 'ethernet', target: { dev: 'tap0', managed: true } }] } },
      taps: [routed('tap0')],
    },
    holds: { domain: { devices: { interfaces: [ethernet('tap0')] } }, taps: [routed('tap0')] },
  },
}

export const tapOnce: Rule = {
  id: 'tap-once',
  description: 'Each of the `taps` of the VM must be the `target.dev` of at most one interface: it is one device.',
  *check({ spec: { taps = [] }, domain }) {
    const users = new Map<string, number>()
    for (const [index, { target }] of list(domain, 'interfaces').entries()) {
      const dev = taps.find((tap) => tap.dev === target?.dev)?.dev
      if (dev === undefined) continue
      const other = users.get(dev)
      if (other === undefined) users.set(dev, index)
      else {
        const message = `is already the target of devices.interfaces[${other}]`
        yield duplicate(`spec.domain.devices.interfaces[${index}].target.dev`, dev, message)
      }
    }
  },
  example: {
    breaks: { domain: { devices: { interfaces: [ethernet('tap0'), ethernet('tap0')] } }, taps: [routed('tap0')] },
    holds: { domain: { devices: { interfaces: [ethernet('tap0')] } }, taps: [routed('tap0')] },
  },
}

export const tapRouted: Rule = {
  id: 'tap-routed',
  description: 'At most one interface can be connected by the plugins `routed` and `nat`: the pod has one address.',
  *check({ spec: { taps = [] }, domain }) {
    const used = new Set(list(domain, 'interfaces').map(({ target }) => target?.dev))
    const indexes = [...taps.keys()].filter((index) => {
      const { dev, plugin } = taps[index] ?? {}
      return plugin !== undefined && podPlugins.includes(plugin) && used.has(dev)
    })
    for (const index of indexes.slice(1)) {
      const first = taps[indexes[0] ?? 0]?.dev
      const message = `must not be one of ${podPlugins.join(', ')} again: the address of the pod already belongs to ${first}`
      yield invalid(`spec.taps[${index}].plugin`, taps[index]?.plugin, message)
    }
  },
  example: {
    breaks: {
      domain: { devices: { interfaces: [ethernet('tap0'), ethernet('tap1')] } },
      taps: [routed('tap0'), routed('tap1')],
    },
    holds: { domain: { devices: { interfaces: [ethernet('tap0')] } }, taps: [routed('tap0'), routed('tap1')] },
  },
}

export const tapNetwork: Rule = {
  id: 'tap-network',
  description:
    'A tap of the plugin `redirect` must have a `network`, and one of the plugins `routed` and `nat` must not: its network is that of the pod.',
  *check({ spec: { taps = [] }, domain }) {
    const used = new Set(list(domain, 'interfaces').map(({ target }) => target?.dev))
    for (const [index, { dev, plugin, network }] of taps.entries()) {
      if (!used.has(dev)) continue
      const at = `spec.taps[${index}].network`
      if (plugin === redirectPlugin && network === undefined)
        yield required(at, 'must be set: the name of a NetworkAttachmentDefinition')
      if (podPlugins.includes(plugin) && network !== undefined)
        yield forbidden(at, network, `must not be set: the plugin ${plugin} connects the network of the pod`, other)
    }
  },
  example: {
    breaks: {
      domain: { devices: { interfaces: [ethernet('tap1')] } },
      taps: [{ dev: 'tap1', plugin: redirectPlugin }],
    },
    holds: {
      domain: { devices: { interfaces: [ethernet('tap1')] } },
      taps: [{ dev: 'tap1', plugin: redirectPlugin, network: 'lab' }],
    },
  },
}

const other = `for another network, set the plugin ${redirectPlugin}`

export const tapRules: readonly Rule[] = [tapInterface, tapOnce, tapRouted, tapNetwork]
