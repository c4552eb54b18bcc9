// Heat map and state timeline. Grafana's own are plugins that are on no registry, so these are drawn here and say so.
import { formattedValueToString, getFieldDisplayName } from '@grafana/data';
import React from 'react';

const LEFT = 150;
const NOTE = 'drawn by this harness: the plugin of Grafana is not published';

function Times({ range, width, height }) {
  const marks = [0, 0.25, 0.5, 0.75, 1];
  return marks.map((share) => (
    <text key={share} x={LEFT + share * (width - LEFT - 60)} y={height - 4} fontSize="11" fill="#555">
      {new Date((range.begin + share * (range.end - range.begin)) * 1000).toISOString().slice(11, range.end - range.begin < 600 ? 19 : 16)}
    </text>
  ));
}

export function Cells({ frames, width, height, range, colourOf, words }) {
  const rows = words ? [...frames].reverse() : frames;
  const tall = (height - 40) / Math.max(rows.length, 1);
  const every = Math.ceil(12 / tall);  // a name is 12 pixels high
  const wide = ((width - LEFT - 8) * range.step) / (range.end - range.begin + range.step);
  const at = (time) => LEFT + ((time / 1000 - range.begin) / range.step) * wide;
  return (
    <svg width={width} height={height} fontFamily="Inter, sans-serif">
      {rows.map((frame, row) => {
        const top = 14 + (rows.length - 1 - row) * tall;
        return (
          <g key={row}>
            {row % every === 0 && (
              <text x={LEFT - 6} y={top + tall / 2 + 4} textAnchor="end" fontSize="11" fill="#333">
                {getFieldDisplayName(frame.fields[1], frame)}
              </text>
            )}
            {frame.fields[1].values.map((value, index) => (
              <rect key={index} x={at(frame.fields[0].values[index])} y={top} width={wide} height={Math.max(tall - 1, 1)}
                fill={colourOf(value, frame.fields[1])}>
                <title>{formattedValueToString(frame.fields[1].display(value))}</title>
              </rect>
            ))}
          </g>
        );
      })}
      <text x={LEFT} y={9} fontSize="9" fill="#999">{NOTE}</text>
      <Times range={range} width={width} height={height} />
    </svg>
  );
}

export function orange(frames) {
  const most = Math.max(...frames.flatMap((frame) => frame.fields[1].values.filter(Number.isFinite)), 1);
  return (value) => (value > 0 ? `rgba(217, 95, 2, ${0.15 + 0.85 * Math.sqrt(value / most)})` : 'none');
}
