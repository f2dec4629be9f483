import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { parseGuestMetrics, type GuestMetrics } from '../api/guest-metrics.ts'
import { request, subresourcePath } from './api.ts'
import { Refused, textOf } from './failure.ts'
import { html } from './html.ts'
import { bytesText, linesOf, shareText, withSample, type Sample } from './usage.ts'

interface MetricsProps {
  readonly namespace: string
  readonly name: string
}

const intervalMs = 5000
/** Rates need two samples. */
const secondMs = 1500
/** Not running any longer, no permission, or a launcher of an older version: it rarely changes while one looks. */
const refusedMs = 30_000

interface Usage {
  readonly samples: readonly Sample[]
  readonly last?: GuestMetrics
  readonly error: string
}

/** Reads the metrics of a running VM while the page is visible. */
function useUsage({ namespace, name }: MetricsProps): Usage {
  const [usage, setUsage] = useState<Usage>({ samples: [], error: '' })
  useEffect(() => {
    let isStopped = false
    let timer: ReturnType<typeof setTimeout> | undefined
    let isFirst = true
    const path = subresourcePath('virtualmachines', namespace, name, 'metrics')
    const read = async () => {
      let nextMs = isFirst ? secondMs : intervalMs
      try {
        if (document.hidden) return
        const metrics = parseGuestMetrics(await request('GET', path))
        isFirst = false
        if (!isStopped) {
          setUsage(({ samples, last }) => ({
            samples: withSample(samples, metrics, last),
            last: metrics,
            error: '',
          }))
        }
      } catch (error) {
        if (error instanceof Refused && error.status < 500 && error.status !== 429) nextMs = refusedMs
        if (!isStopped) setUsage((now) => ({ ...now, error: textOf(error) }))
      } finally {
        if (!isStopped) timer = setTimeout(() => void read(), nextMs)
      }
    }
    void read()
    return () => {
      isStopped = true
      clearTimeout(timer)
    }
  }, [namespace, name])
  return usage
}

/** What a running guest uses, as small plots of the last minutes. */
export function Metrics(props: MetricsProps) {
  const { samples, last, error } = useUsage(props)
  const now = samples.at(-1)
  const cpus = last?.cpu.count ?? 1
  const total = last?.memory.totalBytes ?? 0
  const perSecond = (value: number | undefined) => (value === undefined ? '…' : `${bytesText(value)}/s`)
  return html`<section class="card" aria-labelledby="metrics">
    <div class="bar">
      <h2 id="metrics">Usage</h2>
      <span class="count" role="status">${error === '' ? '' : error}</span>
    </div>
    <div class="plots">
      <${Plot}
        title="CPU"
        text=${now?.cpus === undefined ? '…' : `${shareText(now.cpus / cpus)} of ${cpus}`}
        series=${[{ name: 'CPU', values: samples.map((one) => one.cpus) }]}
        least=${cpus}
      />
      <${Plot}
        title=${last?.memory.usedBytes === undefined ? 'Memory on the node' : 'Memory'}
        text=${now === undefined ? '…' : `${bytesText(now.memoryBytes)} of ${bytesText(total)}`}
        series=${[{ name: 'memory', values: samples.map((one) => one.memoryBytes) }]}
        least=${total}
      />
      <${Plot}
        title="Disk"
        text=${rates(`read ${perSecond(now?.readPerSecond)}`, `write ${perSecond(now?.writtenPerSecond)}`)}
        series=${[
          { name: 'read', values: samples.map((one) => one.readPerSecond) },
          { name: 'write', values: samples.map((one) => one.writtenPerSecond) },
        ]}
        least=${1024}
      />
      <${Plot}
        title="Network"
        text=${rates(`in ${perSecond(now?.receivedPerSecond)}`, `out ${perSecond(now?.sentPerSecond)}`)}
        series=${[
          { name: 'in', values: samples.map((one) => one.receivedPerSecond) },
          { name: 'out', values: samples.map((one) => one.sentPerSecond) },
        ]}
        least=${1024}
      />
    </div>
  </section>`
}

/** Two values, each with the color of its line. */
const rates = (first: string, second: string) =>
  html`<span class="series-0">${first}</span>${', '}<span class="series-1">${second}</span>`

interface PlotProps {
  readonly title: string
  readonly text: ComponentChildren
  readonly series: readonly { readonly name: string; readonly values: readonly (number | undefined)[] }[]
  /** The top of the plot, unless a value is larger. */
  readonly least: number
}

const [width, height] = [240, 44]

/** The latest values as text, and the recent ones as lines. The text is for screen readers, too. */
function Plot({ title, text, series, least }: PlotProps) {
  const top = Math.max(least, 1, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)))
  return html`<div class="plot">
    <h3>${title}</h3>
    <p>${text}</p>
    <svg viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      ${series.map(({ name, values }, index) =>
        linesOf(values, { top, width, height }).map(
          (points) =>
            html`<g class=${`series-${index}`} key=${`${name} ${points}`}>
              ${index === 0 && html`<polygon points=${`${firstX(points)},${height} ${points} ${lastX(points)},${height}`} />`}
              <polyline points=${points} />
            </g>`,
        ),
      )}
    </svg>
  </div>`
}

const firstX = (points: string): string => points.slice(0, points.indexOf(','))
const lastX = (points: string): string => firstX(points.slice(points.lastIndexOf(' ') + 1))
